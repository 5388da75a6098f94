//! What a connection is, and the commands that decide nothing.

use std::borrow::Cow;

use subtle::ConstantTimeEq;

use super::{
    command::Refused,
    encode::{Version, Writer},
    throttle::Limit,
};

/// What clients look for to see that a server is ready.
const INFO: &str = concat!(
    "# Server\r\nserver_name:sluicegate\r\nsluicegate_version:",
    env!("CARGO_PKG_VERSION"),
    "\r\nredis_mode:standalone\r\n\r\n# Persistence\r\nloading:0\r\n\r\n# Replication\r\nrole:master\r\n",
);
/// The user that a password alone is of.
const DEFAULT_USER: &[u8] = b"default";
/// The longest name of a connection, in bytes.
const MAX_NAME_LEN: usize = 256;

/// Every command: its name, how many words it has (at least so many if negative), and where its key is.
const COMMANDS: [(&str, i64, i64); 13] = [
    ("cl.throttle", -5, 1),
    ("sg.take", -2, 0),
    ("sg.peek", -2, 0),
    ("ping", -1, 0),
    ("echo", 2, 0),
    ("hello", -1, 0),
    ("auth", -2, 0),
    ("client", -2, 0),
    ("select", 2, 0),
    ("command", -1, 0),
    ("info", -1, 0),
    ("quit", 1, 0),
    ("reset", 1, 0),
];

/// One connection.
#[derive(Debug)]
pub(super) struct Session<'d> {
    pub(super) version: Version,
    /// Whether it may ask for decisions: it gave the password, or there is none.
    pub(super) trusted: bool,
    /// Whether it ends after what it has been told.
    pub(super) ending: bool,
    /// The limit of its last `CL.THROTTLE`.
    pub(super) last: Option<Limit>,
    id: i64,
    name: Vec<u8>,
    password: Option<&'d str>,
}

type Told = Result<(), Refused>;
type Rest<'w, 'b> = &'w [Cow<'b, [u8]>];

impl<'d> Session<'d> {
    pub(super) fn new(id: i64, password: Option<&'d str>) -> Self {
        let trusted = password.is_none();
        let (version, ending, last, name) = (Version::Two, false, None, Vec::new());
        Self { version, trusted, ending, last, id, name, password }
    }

    /// Carries out a command that decides nothing.
    pub(super) fn carry_out(&mut self, name: &str, rest: Rest<'_, '_>, out: &mut Vec<u8>) {
        let begin = out.len();
        if let Err(refused) = self.tell(name, rest, out) {
            out.truncate(begin);
            self.writer(out).error(&refused.to_string());
        }
    }

    pub(super) fn writer<'o>(&self, out: &'o mut Vec<u8>) -> Writer<'o> {
        Writer { out, version: self.version }
    }

    fn tell(&mut self, name: &str, rest: Rest<'_, '_>, out: &mut Vec<u8>) -> Told {
        match name {
            "quit" => self.quit(out),
            "reset" => self.reset(out),
            "auth" => return self.auth(rest, out),
            "hello" => return self.hello(rest, out),
            _ if !self.trusted => return Err(Refused::NoAuth),
            "ping" => return self.ping(rest, out),
            "echo" => return self.echo(rest, out),
            "client" => return self.client(rest, out),
            "select" => return self.select(rest, out),
            "command" => self.command(rest, out),
            _ => self.writer(out).bulk(INFO.as_bytes()),
        }
        Ok(())
    }

    fn quit(&mut self, out: &mut Vec<u8>) {
        self.ending = true;
        self.writer(out).simple("OK");
    }

    fn reset(&mut self, out: &mut Vec<u8>) {
        *self = Self::new(self.id, self.password);
        self.writer(out).simple("RESET");
    }

    fn auth(&mut self, rest: Rest<'_, '_>, out: &mut Vec<u8>) -> Told {
        let (user, password) = match rest {
            [password] => (DEFAULT_USER, password),
            [user, password] => (user.as_ref(), password),
            _ => return Err(Refused::Arity("auth")),
        };
        self.admit(user, password)?;
        self.writer(out).simple("OK");
        Ok(())
    }

    /// Compares in constant time, so that nobody can feel his way to the password.
    fn admit(&mut self, user: &[u8], password: &[u8]) -> Told {
        let Some(own) = self.password else {
            return Err(Refused::Invalid("AUTH is not needed: this door has no password".to_owned()));
        };
        if user != DEFAULT_USER || !bool::from(own.as_bytes().ct_eq(password)) {
            return Err(Refused::WrongPass);
        }
        self.trusted = true;
        Ok(())
    }

    fn hello(&mut self, rest: Rest<'_, '_>, out: &mut Vec<u8>) -> Told {
        let (version, mut options) = match rest.split_first() {
            None => (self.version, rest),
            Some((version, options)) => (version_of(version)?, options),
        };
        let mut name = None;
        loop {
            options = match options {
                [] => break,
                [option, user, password, after @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                    self.admit(user, password)?;
                    after
                }
                [option, given, after @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                    name = Some(valid_name(given)?);
                    after
                }
                _ => return Err(Refused::Invalid("syntax error in HELLO".to_owned())),
            };
        }
        if !self.trusted {
            return Err(Refused::NoAuth);
        }
        self.version = version;
        self.name = name.unwrap_or_else(|| std::mem::take(&mut self.name));
        self.greet(out);
        Ok(())
    }

    fn greet(&self, out: &mut Vec<u8>) {
        let mut writer = self.writer(out);
        let proto = if self.version == Version::Two { 2 } else { 3 };
        writer.value(&serde_json::json!({
            "server": "sluicegate",
            "version": env!("CARGO_PKG_VERSION"),
            "proto": proto,
            "id": self.id,
            "mode": "standalone",
            "role": "master",
            "modules": [],
        }));
    }

    fn ping(&self, rest: Rest<'_, '_>, out: &mut Vec<u8>) -> Told {
        match rest {
            [] => self.writer(out).simple("PONG"),
            [text] => self.writer(out).bulk(text),
            _ => return Err(Refused::Arity("ping")),
        }
        Ok(())
    }

    fn echo(&self, rest: Rest<'_, '_>, out: &mut Vec<u8>) -> Told {
        let [text] = rest else { return Err(Refused::Arity("echo")) };
        self.writer(out).bulk(text);
        Ok(())
    }

    fn client(&mut self, rest: Rest<'_, '_>, out: &mut Vec<u8>) -> Told {
        let (verb, rest) = rest.split_first().ok_or(Refused::Arity("client"))?;
        match (verb.to_ascii_lowercase().as_slice(), rest) {
            (b"id", []) => self.writer(out).integer(self.id),
            (b"getname", []) if self.name.is_empty() => self.writer(out).null(),
            (b"getname", []) => self.writer(out).bulk(&self.name),
            (b"setname", [name]) => {
                self.name = valid_name(name)?;
                self.writer(out).simple("OK");
            }
            // What a client says of itself is taken and not kept.
            (b"setinfo", [_, _]) | (b"no-evict" | b"no-touch", [_]) => self.writer(out).simple("OK"),
            _ => {
                let known = "ID, GETNAME, SETNAME, SETINFO, NO-EVICT and NO-TOUCH";
                return Err(Refused::Invalid(format!("of CLIENT there are {known}")));
            }
        }
        Ok(())
    }

    fn select(&self, rest: Rest<'_, '_>, out: &mut Vec<u8>) -> Told {
        match rest {
            [number] if number.as_ref() == b"0" => self.writer(out).simple("OK"),
            [_] => return Err(Refused::Invalid("there is only database 0".to_owned())),
            _ => return Err(Refused::Arity("select")),
        }
        Ok(())
    }

    fn command(&self, rest: Rest<'_, '_>, out: &mut Vec<u8>) {
        let mut writer = self.writer(out);
        match rest.first().map(|verb| verb.to_ascii_lowercase()).as_deref() {
            Some(b"count") => writer.integer(i64::try_from(COMMANDS.len()).unwrap_or(i64::MAX)),
            Some(b"docs") => writer.map(0),
            Some(b"list") => {
                writer.list(COMMANDS.len());
                for (name, ..) in COMMANDS {
                    writer.bulk(name.as_bytes());
                }
            }
            _ => {
                writer.list(COMMANDS.len());
                for command in COMMANDS {
                    describe(command, &mut writer);
                }
            }
        }
    }
}

/// The six fields that a client of the protocol knows: name, words, flags, first key, last key, step.
fn describe((name, words, key): (&str, i64, i64), writer: &mut Writer<'_>) {
    writer.list(6);
    writer.bulk(name.as_bytes());
    writer.integer(words);
    writer.list(1);
    writer.simple("fast");
    (0..3).for_each(|_| writer.integer(key));
}

fn version_of(word: &[u8]) -> Result<Version, Refused> {
    match word {
        b"2" => Ok(Version::Two),
        b"3" => Ok(Version::Three),
        _ => Err(Refused::NoProto),
    }
}

fn valid_name(name: &[u8]) -> Result<Vec<u8>, Refused> {
    if name.len() <= MAX_NAME_LEN && name.iter().all(u8::is_ascii_graphic) {
        return Ok(name.to_vec());
    }
    let what = format!("a connection's name has at most {MAX_NAME_LEN} characters and no blanks");
    Err(Refused::Invalid(what))
}
