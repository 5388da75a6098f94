local denied, now_us, record, written, life = false
for i = 1, count do
  record, written = read or call('GET', KEYS[i]) or '', false
  local asks, size, from, last, held = ARGV[i], #record, 1, 0, 0
  now_us = unpack('<d', asks)
  for at = 9, #asks, 37 do
    local tag, p, q, r, s = unpack('<I5dddd', asks, at)
    local machine, found, resets, first, second = tag % 16, 0
    local ticks = tag % 256 - machine
    local now, per_s = now_us, 1000000
    if ticks > 0 then
      tag, per_s = tag - ticks, ticks == 16 and 1000 or 1
      now = now / (1000000 / per_s)
      now = now - now % 1
    end
    if from <= size then
      found, resets, first, second = unpack('<I5I5dd', record, from)
      if found ~= tag then
        -- Out of order: the ask's entry moves to the front of those that are left, if it is there.
        local seek, sub = from, string.sub
        while seek <= size do
          found, resets, first, second = unpack('<I5I5dd', record, seek)
          local kind = found % 256
          local ends = seek + (kind == 2 and 26 + 10 * second or kind == 3 and 34 or 26)
          if kind < 1 or kind > 5 or not (ends >= seek + 26 and ends <= size + 1) then
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
    local begins, entry, counted = from, false, false
