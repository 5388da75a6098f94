-- forget: drops the state of one limit and subject, and nothing else. The time to live stays as it was.
--
-- KEYS[1]  the subject's record.
-- ARGV[1]  the limit's id.
-- Reply    1 if there was such a state, else 0; the error 'MALFORMED' for a record that no script of ours wrote.
--
-- The loop ends: a record has at most an entry for each limit that counts by its subject.
local call, unpack, sub = redis.call, struct.unpack, string.sub
local record, id = call('GET', KEYS[1]) or '', tonumber(ARGV[1])
local from, size, kept, found = 1, #record, {}, 0
while from <= size do
  local tag, _, _, number = unpack('<I5I5dd', record, from)
  local machine = tag % 256
  local ends = from + (machine == 2 and 26 + 10 * number or machine == 3 and 34 or 26)
  if machine < 1 or machine > 5 or not (ends >= from + 26 and ends <= size + 1) then
    return redis.error_reply('MALFORMED the record is not one of this store')
  end
  if (tag - machine) / 256 == id then
    found = 1
  else
    kept[#kept + 1] = sub(record, from, ends - 1)
  end
  from = ends
end
if found == 1 then
  if #kept == 0 then
    call('DEL', KEYS[1])
  else
    call('SET', KEYS[1], table.concat(kept), 'KEEPTTL')
  end
end
return found
