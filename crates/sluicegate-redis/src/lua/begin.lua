-- begin: begins an attempt at a request with an id whose limits are in several slots.
--
-- KEYS[1]  the id's key (once_head.lua).
-- KEYS[2]  the key of its attempts: the number of the last, and when it began, or 0 if it has ended, '<dd'.
-- ARGV[1]  now in microseconds, '<d'.
-- Reply    {'=', answered} if the id is known, as for once. {'~'} if another attempt began less than a tenth of a second ago.
--          Else {'', number}, the number of this attempt, '<d': from now on no earlier one can end well.
local call, unpack, pack = redis.call, struct.unpack, struct.pack
local now = unpack('<d', ARGV[1])
local known, last = call('GET', KEYS[1]), call('GET', KEYS[2])
if known and unpack('<d', known, 17) + 86400000000 > now then return { '=', known } end
local number = 0
if last then
  local began
  number, began = unpack('<dd', last)
  if began > now - 100000 and began < now + 100000 then return { '~' } end
end
call('SET', KEYS[2], pack('<dd', number + 1, now), 'EX', '86410')
return { '', pack('<d', number + 1) }
