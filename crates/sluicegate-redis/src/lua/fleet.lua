-- fleet: writes an instance into the list of a fleet, drops those that have not been heard of, and answers the list.
--
-- KEYS[1]  the list: for each instance its id, 16 letters, and the millisecond at which it was heard of, a double.
-- ARGV[1]  now, in ms.
-- ARGV[2]  the instance's id.
-- ARGV[3]  how long an instance is in the fleet without being heard of, in ms.
-- ARGV[4]  the most instances: one that is too many is not written, and does not find itself in the answer.
-- Reply    the list.
--
-- The loop ends: a list has at most so many instances.
local call, pack, unpack, sub = redis.call, struct.pack, struct.unpack, string.sub
local list, now, id, lifetime = call('GET', KEYS[1]) or '', tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local kept = {}
for from = 1, #list - 23, 24 do
  local heard = unpack('<d', list, from + 16)
  if sub(list, from, from + 15) ~= id and now - heard < lifetime and heard - now < lifetime then
    kept[#kept + 1] = sub(list, from, from + 23)
  end
end
if #kept < tonumber(ARGV[4]) then
  kept[#kept + 1] = pack('<c16d', id, now)
end
list = table.concat(kept)
call('SET', KEYS[1], list, 'PX', ARGV[3])
return list
