//! GCRA as textbooks write it: what the floors decide by.

use std::{
    sync::{Mutex, MutexGuard},
    time::{SystemTime, UNIX_EPOCH},
};

use foldhash::{HashMap, HashMapExt};

/// Nanoseconds between two costs, so a million a second.
const INTERVAL_NS: u64 = 1_000;
/// The most at once.
pub const BURST: u64 = 1_000_000;

/// The same as a script: decimal state in microseconds, four values in the reply.
pub const TEXTBOOK_GCRA: &str = "
local now, interval, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local tat = redis.call('GET', KEYS[1])
if tat then tat = math.max(tonumber(tat), now) else tat = now end
local new_tat = tat + interval * cost
local allow_at = new_tat - interval * burst
if now < allow_at then
  return {0, 0, tostring(allow_at - now), tostring(tat - now)}
end
redis.call('SET', KEYS[1], string.format('%.0f', new_tat), 'PX', math.ceil((new_tat - now) / 1000))
return {1, math.floor((now - allow_at) / interval), tostring(-1), tostring(new_tat - now)}";

/// What became of one ask.
pub struct Verdict {
    /// Whether it passes.
    pub allowed: bool,
    /// The largest cost that would pass now.
    pub remaining: u64,
    /// Nanoseconds until it would pass; 0 if it did.
    pub retry_ns: u64,
    /// Nanoseconds until the key is as if never used.
    pub reset_ns: u64,
}

/// Theoretical arrival times in nanoseconds, by key.
pub struct Gcra(Mutex<HashMap<Vec<u8>, u64>>);

impl Gcra {
    /// Without keys.
    pub fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    /// Decides about one ask now.
    pub fn take(&self, key: &[u8], cost: u64) -> Verdict {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let mut arrivals = self.0.lock().unwrap();
        let arrival = known_or_new(&mut arrivals, key);
        let next = (*arrival).max(now) + cost * INTERVAL_NS;
        let latest = now + BURST * INTERVAL_NS;
        let allowed = next <= latest;
        if allowed {
            *arrival = next;
        }
        Verdict {
            allowed,
            remaining: latest.saturating_sub((*arrival).max(now)) / INTERVAL_NS,
            retry_ns: next.saturating_sub(latest),
            reset_ns: arrival.saturating_sub(now),
        }
    }
}

impl Default for Gcra {
    fn default() -> Self {
        Self::new()
    }
}

/// A key's arrival time; the key is copied the first time alone.
fn known_or_new<'a>(arrivals: &'a mut MutexGuard<'_, HashMap<Vec<u8>, u64>>, key: &[u8]) -> &'a mut u64 {
    if !arrivals.contains_key(key) {
        arrivals.insert(key.to_vec(), 0);
    }
    arrivals.get_mut(key).unwrap()
}
