//! Under systemd, as `deploy/systemd/sluicegate.service` starts it.

use std::{
    fs,
    net::TcpStream,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::Duration,
};

use tempfile::TempDir;

use crate::binary::{Process, sluicegate};

const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/systemd/sluicegate.service");

/// Where systemd would listen.
struct Systemd(UnixDatagram);

impl Systemd {
    fn hears(&self) -> String {
        let mut bytes = [0; 256];
        let len = self.0.recv(&mut bytes).expect("a word in time");
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    }

    /// The next word that is not of the watchdog.
    fn hears_of_state(&self) -> String {
        std::iter::repeat_with(|| self.hears()).find(|word| word != "WATCHDOG=1").unwrap()
    }
}

/// Starts what the unit starts, with settings of this test's own.
fn start(folder: &TempDir, socket: UnixDatagram, name: &str) -> (Process, Systemd) {
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let config = folder.path().join("sluicegate.yaml");
    fs::write(&config, "http: 127.0.0.1:0\ngrpc: 127.0.0.1:0\n").unwrap();
    let unit = fs::read_to_string(UNIT).unwrap();
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/sluicegate ")).unwrap();
    let words = start.split(' ').map(|word| match word {
        "/etc/sluicegate/sluicegate.yaml" => config.to_str().unwrap(),
        "5000" => "300",
        word => word,
    });
    let mut command = sluicegate();
    command.args(words).env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", "100000");
    (Process::start(&mut command, 2), Systemd(socket))
}

#[test]
fn systemd_hears_of_readiness_of_life_and_of_the_stop() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notify");
    let (process, systemd) = start(&folder, UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap());
    assert_eq!(systemd.hears_of_state(), "READY=1");
    for door in ["http", "grpc"] {
        TcpStream::connect(process.address(door)).expect("ready means that every door listens");
    }
    for _ in 0..5 {
        assert_eq!(systemd.hears(), "WATCHDOG=1");
    }
    process.signal("-TERM");
    assert_eq!(systemd.hears_of_state(), "STOPPING=1");
    assert_eq!(systemd.hears(), "WATCHDOG=1", "it lives while it drains");
    assert_eq!(process.wait(), Some(0));
}

#[test]
fn a_socket_without_a_file_is_notified_too() {
    let folder = TempDir::new().unwrap();
    let name = format!("sluicegate-test-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let (_process, systemd) = start(&folder, socket, &format!("@{name}"));
    assert_eq!(systemd.hears_of_state(), "READY=1");
}
