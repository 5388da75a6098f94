//! The commands that decide nothing.

use super::support::{Server, command};

#[test]
fn a_client_that_only_says_hello_is_answered_as_redis_would() {
    let server = Server::start();
    let mut client = server.connect();
    assert_eq!(client.ask(&["PING"]), "PONG");
    assert_eq!(client.ask(&["ping", "a b"]), "a b");
    assert_eq!(client.ask(&["ECHO", "\u{1f6b0}\r\n"]), "\u{1f6b0}\r\n");
    assert_eq!(client.ask(&["SELECT", "0"]), "OK");
    assert_eq!(client.ask(&["SELECT", "1"]), "-ERR there is only database 0");
    assert_eq!(client.ask(&["CLIENT", "GETNAME"]), "nil");
    assert_eq!(client.ask(&["CLIENT", "SETNAME", "api-7"]), "OK");
    assert_eq!(client.ask(&["CLIENT", "GETNAME"]), "api-7");
    assert_eq!(client.ask(&["CLIENT", "SETINFO", "LIB-NAME", "x"]), "OK");
    assert!(client.ask(&["CLIENT", "KILL", "x"]).starts_with("-ERR of CLIENT there are"));
    assert_eq!(client.ask(&["COMMAND", "COUNT"]), "13");
    assert_eq!(client.ask(&["COMMAND", "DOCS"]), "[]");
    assert!(client.ask(&["COMMAND"]).contains("[cl.throttle -5 [fast] 1 1 1]"));
    assert!(client.ask(&["INFO"]).contains("loading:0\r\n"));
    assert_eq!(client.ask(&["GET", "x"]), "-ERR unknown command `GET`");
    assert_eq!(client.ask(&["ECHO"]), "-ERR wrong number of arguments for `echo`");
}

#[test]
fn hello_chooses_the_version_and_a_reset_forgets_it() {
    let server = Server::start();
    let mut client = server.connect();
    assert!(client.ask(&["HELLO"]).starts_with("[id "));
    let hello = client.ask(&["HELLO", "3", "SETNAME", "me"]);
    assert!(hello.contains("proto: 3") && hello.contains("server: sluicegate"), "{hello}");
    assert_eq!(client.ask(&["CLIENT", "GETNAME"]), "me");
    assert_eq!(client.ask(&["COMMAND", "DOCS"]), "{}");
    assert_eq!(client.ask(&["HELLO", "4"]), "-NOPROTO the protocol versions are 2 and 3");
    assert_eq!(client.ask(&["HELLO", "3", "NONSENSE"]), "-ERR syntax error in HELLO");
    assert_eq!(client.ask(&["RESET"]), "RESET");
    assert_eq!(client.ask(&["CLIENT", "GETNAME"]), "nil");
    assert_eq!(client.ask(&["COMMAND", "DOCS"]), "[]");
}

#[test]
fn without_the_password_nothing_is_decided() {
    let server = Server::start_with(&[], Some("s3cret"));
    let mut client = server.connect();
    let throttle = ["CL.THROTTLE", "k", "0", "1", "60"];
    for words in [&["PING"][..], &throttle, &["SG.TAKE", "x"], &["INFO"], &["NONSENSE"], &["HELLO", "3"]] {
        assert!(client.ask(words).starts_with("-NOAUTH"), "{words:?}");
    }
    for words in [
        &["AUTH", "wrong"][..],
        &["AUTH", "root", "s3cret"],
        &["AUTH", ""],
        &["HELLO", "3", "AUTH", "default", "x"],
    ] {
        assert!(client.ask(words).starts_with("-WRONGPASS"), "{words:?}");
    }
    assert_eq!(client.ask(&["AUTH", "s3cret"]), "OK");
    assert_eq!(client.ask(&throttle), "[0 1 0 -1 60]", "the refused ones counted nothing");
    assert_eq!(client.ask(&["RESET"]), "RESET");
    assert!(client.ask(&throttle).starts_with("-NOAUTH"));
    assert!(client.ask(&["HELLO", "3", "AUTH", "default", "s3cret"]).contains("proto: 3"));
    assert_eq!(client.ask(&throttle), "[1 1 0 60 60]");
    let open = Server::start();
    assert!(open.connect().ask(&["AUTH", "x"]).starts_with("-ERR AUTH is not needed"));
}

#[test]
fn a_quit_is_answered_and_what_follows_it_is_not() {
    let server = Server::start();
    let mut client = server.connect();
    client.send([command(&["PING"]), command(&["QUIT"]), command(&["PING"])].concat());
    assert_eq!((client.answer(), client.answer()), ("PONG".to_owned(), "OK".to_owned()));
    assert!(client.ends());
}

/// What a client sent before the stop is answered; an idle connection does not hold the end up.
#[test]
fn a_stop_answers_what_has_arrived_and_ends_idle_connections() {
    let mut server = Server::start();
    let (mut idle, mut busy) = (server.connect(), server.connect());
    assert_eq!(idle.ask(&["PING"]), "PONG");
    assert_eq!(busy.ask(&["PING"]), "PONG");
    busy.send(command(&["CL.THROTTLE", "k", "0", "1", "60"]).repeat(1_000));
    server.stop();
    assert_eq!(busy.answer(), "[0 1 0 -1 60]");
    assert!((1..1_000).all(|_| busy.answer() == "[1 1 0 60 60]"));
    assert!(busy.ends() && idle.ends());
}
