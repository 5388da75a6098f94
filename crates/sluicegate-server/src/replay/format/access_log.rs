//! The common and combined formats: `ip - user [time] "method target protocol" status bytes "referer" "user agent"`.

/// The fields of one line; those that are `-` are none.
#[derive(Debug)]
pub(super) struct Fields<'l> {
    ip: &'l str,
    user: Option<&'l str>,
    pub(super) time: &'l str,
    method: Option<&'l str>,
    target: Option<&'l str>,
    protocol: Option<&'l str>,
    status: Option<&'l str>,
    bytes: Option<&'l str>,
    referer: Option<&'l str>,
    user_agent: Option<&'l str>,
}

/// The names that a map may give; `path` is the target without its query.
pub(super) const NAMES: [&str; 11] = [
    "ip",
    "user",
    "time",
    "method",
    "target",
    "path",
    "protocol",
    "status",
    "bytes",
    "referer",
    "user_agent",
];

impl<'l> Fields<'l> {
    /// A field by one of the [`NAMES`], if this line has it.
    pub(super) fn get(&self, name: &str) -> Option<&'l str> {
        match name {
            "ip" => Some(self.ip),
            "user" => self.user,
            "time" => Some(self.time),
            "method" => self.method,
            "target" => self.target,
            "path" => self.path(),
            "protocol" => self.protocol,
            "status" => self.status,
            "bytes" => self.bytes,
            "referer" => self.referer,
            "user_agent" => self.user_agent,
            _ => None,
        }
    }

    /// The attributes of a line where no map says otherwise.
    pub(super) fn usual(&self) -> impl Iterator<Item = (&'static str, Option<&'l str>)> {
        [
            ("ip", Some(self.ip)),
            ("user", self.user),
            ("method", self.method),
            ("endpoint", self.path()),
            ("status", self.status),
            ("referer", self.referer),
            ("user_agent", self.user_agent),
        ]
        .into_iter()
    }

    fn path(&self) -> Option<&'l str> {
        self.target.and_then(|target| target.split(['?', '#']).next())
    }
}

/// Reads a line; `combined` insists on referer and user agent.
pub(super) fn read(line: &str, combined: bool) -> Result<Fields<'_>, String> {
    let (ip, rest) = line.split_once(' ').ok_or("it has no time in brackets")?;
    let (names, rest) = rest.split_once('[').ok_or("it has no time in brackets")?;
    let (time, rest) = rest.split_once(']').ok_or("its time has no closing bracket")?;
    let (request, rest) = quoted(rest).ok_or("it has no request in quotes")?;
    let user = names.trim().split_once(' ').map(|(_, user)| user.trim());
    let mut words = rest.split_whitespace();
    let (status, bytes) = (words.next(), words.next());
    let agents = rest.find('"').and_then(|start| rest.get(start..)).and_then(quoted);
    let (referer, user_agent) = match agents {
        Some((referer, rest)) => (Some(referer), quoted(rest).map(|(agent, _)| agent)),
        None => (None, None),
    };
    if combined && user_agent.is_none() {
        return Err("it has no user agent in quotes".to_owned());
    }
    let mut request = request.split(' ');
    let (method, target, protocol) = (request.next(), request.next(), request.next());
    let given = |field: Option<&'_ str>| field.is_some_and(|text| !text.is_empty() && text != "-");
    Ok(Fields {
        ip,
        user: user.filter(|_| given(user)),
        time,
        method: method.filter(|_| given(method)),
        target,
        protocol,
        status: status.filter(|_| given(status)),
        bytes: bytes.filter(|_| given(bytes)),
        referer: referer.filter(|_| given(referer)),
        user_agent: user_agent.filter(|_| given(user_agent)),
    })
}

/// The next text in quotes, as it stands, and what follows it. A quote after a backslash does not end it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (_, inside) = text.split_once('"')?;
    let mut from = 0;
    loop {
        let end = from + inside.get(from..)?.find('"')?;
        let before = inside.get(..end)?;
        let backslashes = before.len() - before.trim_end_matches('\\').len();
        if backslashes.is_multiple_of(2) {
            return Some(before).zip(inside.get(end + 1..));
        }
        from = end + 1;
    }
}
