-- take: decides all asks of one request; all are counted, or none is. This is the frame; the machines follow as its
-- branches, one file each, and take_tail.lua closes it.
--
-- KEYS[i]  the record of one subject: the states of all limits that count by it.
-- ARGV[i]  what is asked of it: one packed ask of 53 bytes after another, '<I5dddddd'. An ask is a tag (machine + 256
--          times the limit's id), now, ticks per second, and four numbers that each machine names itself. Times are
--          in ticks of the limit.
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
local count, denied, record, written, life = #KEYS, false
local records, writes, lives
if count > 1 then
  records, writes, lives = { '' }, {}, {}
end
for i = 1, count do
  record, written = call('GET', KEYS[i]) or '', false
  local asks, size, from, last, held = ARGV[i], #record, 1, 0, 0
  local tag, now, per_s, p, q, r, s
  for at = 1, #asks, 53 do
    tag, now, per_s, p, q, r, s = unpack('<I5dddddd', asks, at)
    local machine, found, resets, first, second = tag % 256, 0
    if from <= size then
      found, resets, first, second = unpack('<I5I5dd', record, from)
      if found ~= tag then
        -- Out of order: the ask's entry moves to the front of those that are left, if it is there.
        local seek, sub = from, string.sub
        while seek <= size do
          found, resets, first, second = unpack('<I5I5dd', record, seek)
          local kind = found % 256
          local ends = seek + (kind == 2 and 26 + 10 * second or kind == 3 and 34 or 26)
          if kind < 1 or kind > 4 or not (ends >= seek + 26 and ends <= size + 1) then
            return redis.error_reply('MALFORMED the record is not one of this store')
          end
          if found == tag then
            local entry, before = sub(record, seek, ends - 1), sub(record, from, seek - 1)
            record = sub(record, 1, from - 1) .. entry .. before .. sub(record, ends)
            break
          end
          seek = ends
        end
      end
    end
    -- No number of ours is negative or none at all. A log of less than no entries would turn a loop back.
    if found == tag and not (first >= 0 and second >= 0) then
      return redis.error_reply('MALFORMED the record is not one of this store')
    end
    local begins, entry = from, false
