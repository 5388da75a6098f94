//! The Redis door: what is asked of it and of its peers, and a bare loop over epoll that decides the same.

use std::io::{ErrorKind, Read, Write};

use mio::{
    Events, Interest, Poll, Token,
    net::{TcpListener, TcpStream},
};
use redis::Cmd;
use sluicegate_bench::{
    door::{CONNECTIONS, Door, Taken, Talk, alternate},
    gcra::{BURST, Gcra, TEXTBOOK_GCRA},
    server::{Program, Server},
};

use crate::{
    ROUNDS,
    targets::{
        Target::{AtLeast, AtMost},
        absent, head, ratio,
    },
};

/// Requests before the first answer is read, and turns of one load.
const SINGLE: (usize, usize) = (1, 1_000);
const DEEP: (usize, usize) = (16, 150);
const LISTENER: Token = Token(0);

/// Nothing but a loop of one thread: a clock read and a look-up in a map for each command.
pub fn serve_bare() {
    let mut poll = Poll::new().unwrap();
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE).unwrap();
    println!("listening on redis://{}", listener.local_addr().unwrap());
    let (gcra, mut connections, mut events) = (Gcra::new(), Vec::new(), Events::with_capacity(64));
    loop {
        poll.poll(&mut events, None).unwrap();
        for event in &events {
            match event.token().0.checked_sub(1) {
                None => accept(&listener, &poll, &mut connections),
                Some(at) => {
                    let connection: &mut Option<TcpStream> = &mut connections[at];
                    if connection.as_mut().is_some_and(|stream| !answer(stream, &gcra)) {
                        *connection = None;
                    }
                }
            }
        }
    }
}

fn accept(listener: &TcpListener, poll: &Poll, connections: &mut Vec<Option<TcpStream>>) {
    while let Ok((mut stream, _)) = listener.accept() {
        stream.set_nodelay(true).unwrap();
        let token = Token(connections.len() + 1);
        poll.registry().register(&mut stream, token, Interest::READABLE).unwrap();
        connections.push(Some(stream));
    }
}

/// Answers what has arrived, which is whole commands: the load sends no pieces. `false` at the end of the connection.
fn answer(stream: &mut TcpStream, gcra: &Gcra) -> bool {
    let (mut buffer, mut out) = ([0; 16 * 1024], Vec::with_capacity(1_024));
    let len = match stream.read(&mut buffer) {
        Ok(len) => len,
        Err(error) => return error.kind() == ErrorKind::WouldBlock,
    };
    let mut rest = &buffer[..len];
    while !rest.is_empty() {
        let words = words(&mut rest);
        let [_, key, burst, _, _] = words;
        let limit = std::str::from_utf8(burst).unwrap().parse::<u64>().unwrap() + 1;
        let verdict = gcra.take(key, 1);
        let seconds = |nanos: u64| nanos.div_ceil(1_000_000_000);
        let (denied, remaining) = (u8::from(!verdict.allowed), verdict.remaining);
        let (retry, reset) = (seconds(verdict.retry_ns), seconds(verdict.reset_ns));
        write!(out, "*5\r\n:{denied}\r\n:{limit}\r\n:{remaining}\r\n:{retry}\r\n:{reset}\r\n").unwrap();
    }
    stream.write_all(&out).unwrap();
    len > 0
}

/// The words of `CL.THROTTLE key max_burst count period`, taken off the front.
fn words<'b>(rest: &mut &'b [u8]) -> [&'b [u8]; 5] {
    assert_eq!(number(rest), 5);
    std::array::from_fn(|_| {
        let len = number(rest);
        let (word, after) = rest.split_at(len);
        *rest = &after[2..];
        word
    })
}

/// The number of a line such as `$3`, taken off the front.
fn number(rest: &mut &[u8]) -> usize {
    let end = rest.iter().position(|byte| *byte == b'\r').unwrap();
    let digits = std::str::from_utf8(&rest[1..end]).unwrap();
    *rest = &rest[end + 2..];
    digits.parse().unwrap()
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut command = Cmd::new();
    words.iter().for_each(|word| {
        command.arg(*word);
    });
    command.get_packed_command()
}

fn throttle(name: &str, connection: usize) -> Vec<u8> {
    let burst = (BURST - 1).to_string();
    command(&[name, &format!("user-{connection}"), &burst, "1000000", "1"])
}

/// How many answers of so many lines there are, none of them an error.
fn answers(lines: usize) -> impl Fn(&[u8]) -> usize + Sync {
    move |bytes| {
        assert!(bytes.first() != Some(&b'-'), "{}", bytes.escape_ascii());
        bytes.iter().filter(|byte| **byte == b'\n').count() / lines
    }
}

/// Something to ask of a server, and the lines of its answer.
struct Asked<'a> {
    name: &'static str,
    server: (&'a str, u32),
    request: Box<dyn Fn(usize) -> Vec<u8> + Sync + 'a>,
    answers: Box<dyn Fn(&[u8]) -> usize + Sync>,
}

impl<'a> Asked<'a> {
    fn new(
        name: &'static str,
        server: (&'a str, u32),
        lines: usize,
        request: impl Fn(usize) -> Vec<u8> + Sync + 'a,
    ) -> Self {
        Self { name, server, request: Box::new(request), answers: Box::new(answers(lines)) }
    }

    fn door(&self, (depth, turns): (usize, usize)) -> Door<'_> {
        let (address, pid) = self.server;
        Talk { request: &*self.request, answers: &*self.answers, depth, turns }.at(address, vec![pid])
    }
}

/// Measures, and prints what came of it.
pub fn measure(ours: &Program, bare: &Program, throttlecrab: Option<&Program>) {
    let redis = Server::start();
    let sha: String =
        redis::cmd("SCRIPT").arg("LOAD").arg(TEXTBOOK_GCRA).query(&mut redis.admin()).expect("a script");
    let asked = asked(ours, bare, &redis, &sha, throttlecrab);
    let [single, deep] = [SINGLE, DEEP].map(|shape| {
        let doors: Vec<_> = asked.iter().map(|asked| asked.door(shape)).collect();
        alternate(&doors, ROUNDS)
    });
    println!(
        "| RESP, {CONNECTIONS} connections | processor time, one at a time | 16 deep | per second, one at a time | 16 deep |"
    );
    println!("|---|---|---|---|---|");
    for ((asked, single), deep) in asked.iter().zip(&single).zip(&deep) {
        let [one, many] = [single.cpu_ns, deep.cpu_ns].map(|nanos| format!("{:.2} us", nanos / 1e3));
        let [one_s, many_s] = [single.wall_ns, deep.wall_ns].map(|nanos| format!("{:.0}k", 1e6 / nanos));
        println!("| {} | {one} | {many} | {one_s} | {many_s} |", asked.name);
    }
    println!();
    head();
    judge(&single, &deep);
}

fn asked<'a>(
    ours: &'a Program,
    bare: &'a Program,
    redis: &'a Server,
    sha: &'a str,
    throttlecrab: Option<&'a Program>,
) -> Vec<Asked<'a>> {
    let [own, floor] = [ours, bare].map(|program| (program.address("redis"), program.pid()));
    let peer = (redis.address.as_str(), redis.pid());
    let gcra = move |connection: usize| {
        let key = format!("user-{connection}");
        command(&["EVALSHA", sha, "1", &key, "1790000000000000", "60", "100000000", "1"])
    };
    let mut asked = vec![
        Asked::new("sluicegate, `CL.THROTTLE`", own, 6, |connection| throttle("CL.THROTTLE", connection)),
        Asked::new("bare epoll loop, `CL.THROTTLE`", floor, 6, |connection| {
            throttle("CL.THROTTLE", connection)
        }),
        Asked::new("redis-server, `EVALSHA` of GCRA", peer, 7, gcra),
        Asked::new("redis-server, `INCR`", peer, 1, |connection| {
            command(&["INCR", &format!("n-{connection}")])
        }),
        Asked::new("redis-server, `PING`", peer, 1, |_| command(&["PING"])),
        Asked::new("sluicegate, `PING`", own, 1, |_| command(&["PING"])),
    ];
    asked.extend(throttlecrab.map(|program| {
        let server = (program.address("redis"), program.pid());
        Asked::new("throttlecrab-server, `THROTTLE`", server, 6, |connection| {
            throttle("THROTTLE", connection)
        })
    }));
    asked
}

/// Holds the figures against the targets; they stand in the order of [`asked`].
fn judge(single: &[Taken], deep: &[Taken]) {
    let [ours, bare, script, ..] = deep else { unreachable!("three and more were measured") };
    let [alone, _, _, incr, ..] = single else { unreachable!("four and more were measured") };
    ratio("RESP 16 deep: `EVALSHA` of GCRA / ours", script.cpu_ns / ours.cpu_ns, AtLeast(5.0));
    ratio("RESP 16 deep: bare epoll loop / ours", bare.cpu_ns / ours.cpu_ns, AtLeast(0.6));
    ratio("RESP: decisions per second, 16 deep / one at a time", alone.wall_ns / ours.wall_ns, AtLeast(5.0));
    ratio("RESP one at a time: ours / `INCR`", alone.cpu_ns / incr.cpu_ns, AtMost(1.0));
    let name = "RESP 16 deep: decisions per second, ours / throttlecrab-server";
    match deep.get(6) {
        Some(theirs) => ratio(name, theirs.wall_ns / ours.wall_ns, AtLeast(10.0)),
        None => absent(name),
    }
}
