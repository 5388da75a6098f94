-- take: decides all asks of one request; all are counted, or none is. take_loop.lua follows, then the machines as its
-- branches, one file each, then take_keep.lua, which closes them, and take_tail.lua. For a few asks of one subject,
-- straight.rs puts the same machines one after another before the loop.
--
-- KEYS[i]  the record of one subject: the states of all limits that count by it.
-- ARGV[i]  what is asked of it: now in microseconds, '<d', then one packed ask of 37 bytes after another, '<I5dddd'.
--          An ask is a tag (machine + 256 times the limit's id) to which 16 is added if the limit counts in
--          milliseconds, 32 if in seconds, and four numbers that each machine names itself. Times among them are in
--          these ticks.
-- Reply    If all passed: the record as it now is. If denied: '\0' and the record as it was. With several keys the
--          same in a list: {'', record, ...} or {'\0', record, ...}. '\255' alone: a state that should be counted on
--          is more than 5 s ahead of `now`; nothing was decided.
--          An error comes before the first write, so that nothing was counted: 'MALFORMED' for a record that no
--          script of ours wrote.
--
-- A record is one entry after another, each '<I5I5dd' and what its machine adds: tag, the second by which it has
-- reset, and two numbers. What the request does not know is kept until it has reset. A record is written with its time
-- to live in one command: until the last entry has reset, and 8 to 10 seconds of grace.
--
-- Loops end: a request has at most 128 asks, a record at most an entry for each limit that counts by its subject and
-- has not reset, a log at most 1,000 entries. No function is defined: making one costs a call as much as a limit does.
local call, unpack, pack = redis.call, struct.unpack, struct.pack
local count = #KEYS
-- The next record, if it is known already.
local read
local records, writes, lives
if count > 1 then
  records, writes, lives = { '' }, {}, {}
end
