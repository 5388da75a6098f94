-- finish: ends an attempt at a request with an id whose limits are in several slots. From the moment in which it writes, the
-- request is admitted, and not before.
--
-- KEYS[1]  the id's key.
-- KEYS[2]  the key of its attempts.
-- ARGV[1]  the number of the attempt, '<d'.
-- ARGV[2]  what the id's key shall hold (once_head.lua); empty if the request was denied.
-- Reply    1 if this was the last attempt, else 0: then nothing was done. 0 also if another request, which needed no
--          attempt, was admitted under the id meanwhile.
local call, unpack, pack = redis.call, struct.unpack, struct.pack
local last = call('GET', KEYS[2])
if not last then return 0 end
local number = unpack('<d', last)
if number ~= unpack('<d', ARGV[1]) then return 0 end
if ARGV[2] == '' then
  call('SET', KEYS[2], pack('<dd', number, 0), 'KEEPTTL')
else
  local known = call('GET', KEYS[1])
  if known and unpack('<d', known, 17) + 86400000000 > unpack('<d', ARGV[2], 17) then return 0 end
  call('SET', KEYS[1], ARGV[2], 'EX', '86410')
  call('DEL', KEYS[2])
end
return 1
