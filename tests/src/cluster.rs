//! A real Redis Cluster: three masters and a replica of each.

use std::time::Instant;

use crate::{RedisServer, certs::Certs, ports::free_port, redis_server::until};

const MASTERS: usize = 3;
const SLOTS: u16 = 16_384;

/// A running cluster. It ends with this value.
#[derive(Debug)]
pub struct RedisCluster {
    /// Node `n + 3` is at first the replica of node `n`.
    pub nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// A cluster in which every slot is served and every replica is in step.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// The same, with further arguments of every server.
    pub fn with(arguments: &[&str]) -> Self {
        Self::of(|own| RedisServer::with(&[own, arguments].concat()))
    }

    /// The same, with nothing but TLS between the nodes.
    pub fn with_tls(certs: &Certs) -> Self {
        let by_tls = ["--tls-cluster", "yes", "--tls-replication", "yes"];
        Self::of(|own| RedisServer::with_certs(certs, &[own, &by_tls].concat()))
    }

    fn of(server: impl Fn(&[&str]) -> RedisServer) -> Self {
        let cluster = Self { nodes: (0..2 * MASTERS).map(|_| node(&server)).collect() };
        cluster.give_slots();
        cluster.meet();
        cluster.replicate();
        cluster
    }

    /// The URL of the store, with every node as a seed.
    pub fn url(&self) -> String {
        self.url_with("")
    }

    /// The URL with what stands before the hosts: `user:password@`.
    pub fn url_with(&self, before: &str) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{before}{}", hosts.join(","))
    }

    /// The URL over TLS, with what stands before the hosts.
    pub fn tls_url_with(&self, before: &str) -> String {
        let host = |node: &RedisServer| node.tls_url().0.trim_start_matches("rediss://").to_owned();
        let hosts: Vec<String> = self.nodes.iter().map(host).collect();
        format!("rediss+cluster://{before}{}", hosts.join(","))
    }

    /// The slot of a key.
    pub fn slot(&self, key: &str) -> u16 {
        let slot = self.nodes[0].command(&["CLUSTER", "KEYSLOT", key]);
        redis::from_redis_value(slot).expect("a slot")
    }

    /// The master that serves a slot, as one of the nodes tells that is asked.
    pub fn master_of(&self, slot: u16, asked: usize) -> usize {
        let ranges: Vec<redis::Value> =
            redis::from_redis_value(self.nodes[asked].command(&["CLUSTER", "SLOTS"])).expect("ranges");
        for range in ranges {
            let range: Vec<redis::Value> = redis::from_redis_value(range).expect("a range");
            let number = |at: usize| -> u16 { redis::from_redis_value(range[at].clone()).expect("a slot") };
            if (number(0)..=number(1)).contains(&slot) {
                let master: Vec<redis::Value> = redis::from_redis_value(range[2].clone()).expect("a node");
                let port: u16 = redis::from_redis_value(master[1].clone()).expect("a port");
                return self.nodes.iter().position(|node| node.port() == port).expect("a node of ours");
            }
        }
        panic!("nobody serves slot {slot}");
    }

    /// The stored value of a key, read from the master that serves it. After a failover a node may take the cluster for
    /// down for an instant more.
    pub fn value(&self, key: &str, asked: usize) -> Option<Vec<u8>> {
        let master = &self.nodes[self.master_of(self.slot_by(key, asked), asked)];
        let mut value = None;
        until("a value is told", || {
            let told = redis::cmd("GET").arg(key).query(&mut master.admin());
            told.map(|told| value = told).is_ok()
        });
        value
    }

    /// Waits until a node is the master of a slot in the eyes of another, and tells when that was seen.
    pub fn promoted(&self, node: usize, slot: u16, asked: usize) -> Instant {
        until("a replica is promoted", || self.master_of(slot, asked) == node);
        Instant::now()
    }

    /// Moves a slot with all its keys, one key at a time, as `redis-cli --cluster reshard` does; `between` is called
    /// after each step.
    pub fn move_slot(&self, slot: u16, from: usize, to: usize, mut between: impl FnMut()) {
        let (number, ids) = (slot.to_string(), [self.id(from), self.id(to)]);
        self.nodes[to].command(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &ids[0]]);
        between();
        self.nodes[from].command(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &ids[1]]);
        between();
        loop {
            let keys = self.nodes[from].command(&["CLUSTER", "GETKEYSINSLOT", &number, "1"]);
            let keys: Vec<String> = redis::from_redis_value(keys).expect("keys");
            let Some(key) = keys.first() else { break };
            let port = self.nodes[to].port().to_string();
            self.nodes[from].command(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
            between();
        }
        for node in [to, from] {
            self.nodes[node].command(&["CLUSTER", "SETSLOT", &number, "NODE", &ids[1]]);
            between();
        }
    }

    fn slot_by(&self, key: &str, asked: usize) -> u16 {
        redis::from_redis_value(self.nodes[asked].command(&["CLUSTER", "KEYSLOT", key])).expect("a slot")
    }

    fn id(&self, node: usize) -> String {
        redis::from_redis_value(self.nodes[node].command(&["CLUSTER", "MYID"])).expect("an id")
    }

    fn give_slots(&self) {
        let each = SLOTS.div_ceil(3);
        for (node, first) in self.nodes.iter().take(MASTERS).zip((0..SLOTS).step_by(each.into())) {
            let last = (first + each - 1).min(SLOTS - 1);
            node.command(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
        }
    }

    fn meet(&self) {
        for (epoch, node) in (1..).zip(&self.nodes) {
            // Nodes that begin with the same epoch would first have to agree on others.
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &i32::to_string(&epoch)]);
            let bus: Vec<String> =
                redis::from_redis_value(node.command(&["CONFIG", "GET", "cluster-port"])).expect("a setting");
            self.nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &node.port().to_string(), &bus[1]]);
        }
        for node in &self.nodes {
            until("the nodes know each other", || {
                let told = info(node);
                told.contains("cluster_known_nodes:6\r") && told.contains("cluster_state:ok")
            });
        }
    }

    fn replicate(&self) {
        for number in MASTERS..2 * MASTERS {
            self.nodes[number].command(&["CLUSTER", "REPLICATE", &self.id(number - MASTERS)]);
        }
        for node in &self.nodes[MASTERS..] {
            until("the replicas are in step", || node.info("replication").contains("master_link_status:up"));
        }
        let replicas = |told: redis::Value| -> usize {
            redis::from_redis_value::<String>(told).expect("the nodes").matches("slave").count()
        };
        for node in &self.nodes {
            until("every node knows the replicas", || {
                replicas(node.command(&["CLUSTER", "NODES"])) == MASTERS
                    && info(node).contains("cluster_state:ok")
            });
        }
    }
}

fn info(node: &RedisServer) -> String {
    redis::from_redis_value(node.command(&["CLUSTER", "INFO"])).expect("the state of the cluster")
}

fn node(server: impl Fn(&[&str]) -> RedisServer) -> RedisServer {
    // By default the nodes talk to each other on their port plus 10,000, which another test may hold.
    let bus = free_port().to_string();
    let timeout = ["--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0"];
    server(&[&["--cluster-enabled", "yes", "--cluster-port", &bus][..], &timeout].concat())
}
