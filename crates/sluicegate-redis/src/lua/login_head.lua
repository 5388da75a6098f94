-- login: guesses at the secrets of one account. login_begin.lua or login_report.lua follows, then login_tail.lua.
-- Twin of sluicegate-core/src/login/account.rs and gauge.rs, names included.
--
-- KEYS[1]  the account's record.
-- ARGV[1]  the rules, 21 doubles: whether the unknown lane is a counter (1) or leaks (0); of three leaks burst and every,
--          in ms, 0 for none (of a counter limit, ttl; lockout, 0; 0, 0); burst and every of a device's lane and of a
--          familiar one, every 0 for none; how long an address is familiar; free and undelayed guesses; failures before
--          another factor, -1 for never; tries at a code; burst and every of what is forgiven and of what is aborted;
--          whether a success stays counted. Then now, in ms, a double.
-- ARGV[2]  the event; see the file that follows.
-- Reply    10 bytes, '<BBd': see the file that follows. An error comes before the first write: 'MALFORMED' for a record
--          that no script of ours wrote.
--
-- A record is 73 bytes, then devices (16 bytes each), familiar addresses (24), clients (32), codes (20) and attempts (50),
-- as the lines below read them. It is written with its time to live in one command: until nothing in it counts any more,
-- and 10 seconds of grace.
--
-- Loops end: 16 devices, 8 familiar addresses, 32 clients, 8 codes, 64 attempts. No function is defined: making one
-- costs a call as much as a decision does.
local call, pack, unpack = redis.call, struct.pack, struct.unpack
local counter, b1, e1, b2, e2, b3, e3, dev_burst, dev_every, fam_burst, fam_every, fam_ms, free, undelayed, step_up, most_tries,
  for_burst, for_every, ab_burst, ab_every, keeps, now = unpack('<dddddddddddddddddddddd', ARGV[1])
counter = counter == 1
local burst, every, nobody = { b1, b2, b3 }, { e1, e2, e3 }, '\0\0\0\0\0\0\0\0'
local record = call('GET', KEYS[1])
local time, u1, u2, u3, not_before, consecutive, forgiven, aborted = 0, 0, 0, 0, 0, 0, 0, 0
local tags, devices, familiar, clients, codes, open = {}, {}, {}, {}, {}, {}
if record then
  if #record < 73 or string.byte(record) ~= 1 then
    return redis.error_reply('MALFORMED the record is not one of this store')
  end
  local marks, t1, t2, t3, n1, n2, n3, n4, n5
  time, u1, u2, u3, not_before, forgiven, aborted, consecutive, marks, t1, t2, t3, n1, n2, n3, n4, n5 =
    unpack('<dddddddI4BI2I2I2BBBBB', record, 2)
  if #record ~= 73 + 16 * n1 + 24 * n2 + 32 * n3 + 20 * n4 + 50 * n5 then
    return redis.error_reply('MALFORMED the record is not one of this store')
  end
  -- A clock that stepped back by more than clocks of one fleet differ moves everything back.
  local back = time - now > 5000 and time - now or 0
  time = time - back
  if not counter then u1 = u1 > back and u1 - back or 0 end
  u2, u3 = u2 > back and u2 - back or 0, u3 > back and u3 - back or 0
  not_before = not_before > back and not_before - back or 0
  forgiven, aborted = forgiven > back and forgiven - back or 0, aborted > back and aborted - back or 0
  if time > now then now = time end
  for i, tag in ipairs({ t1, t2, t3 }) do
    if i <= marks then tags[i] = tag end
  end
  local from = 74
  for _ = 1, n1 do
    local key, drained_at = unpack('<c8d', record, from)
    drained_at, from = drained_at > back and drained_at - back or 0, from + 16
    if drained_at > now then devices[#devices + 1] = { key, drained_at } end
  end
  for _ = 1, n2 do
    local key, drained_at, till = unpack('<c8dd', record, from)
    drained_at, from = drained_at > back and drained_at - back or 0, from + 24
    till = till > back and till - back or 0
    if till > now then familiar[#familiar + 1] = { key, drained_at, till } end
  end
  for _ = 1, n3 do
    local key, c1, c2, c3 = unpack('<c8ddd', record, from)
    from = from + 32
    if not counter then c1 = c1 > back and c1 - back or 0 end
    c2, c3 = c2 > back and c2 - back or 0, c3 > back and c3 - back or 0
    if c2 > now or c3 > now or not counter and c1 > now then clients[#clients + 1] = { c1, c2, c3, key } end
  end
  for _ = 1, n4 do
    local key, tries, till = unpack('<c8I4d', record, from)
    till, from = till > back and till - back or 0, from + 20
    if till > now then codes[#codes + 1] = { key, tries, till } end
  end
  for _ = 1, n5 do
    local id, at, lane, device, client, code, proof, done = unpack('<c8dBc8c8c8c8B', record, from)
    at, from = at > back and at - back or 0, from + 50
    if at + 300000 > now then open[#open + 1] = { id, at, lane, device, client, code, proof, done } end
  end
end
local unknown = { u1, u2, u3 }
-- Guesses that count now: of leaks the most of the first.
local used = 0
if counter then
  used = unknown[2] > now and unknown[1] or 0
elseif unknown[1] > now then
  local owed = unknown[1] - now
  used = (owed - owed % every[1]) / every[1] + (owed % every[1] > 0 and 1 or 0)
end
