-- rebase: moves states that lie more than 5 s ahead of `now` back to now, with all that was used. Called when `take`
-- answered that a state is too far ahead and the server's clock, asked again, stands by `now`. What it does is kept
-- even if the ask is then denied: else nothing would ever drain until the clock has caught up.
--
-- KEYS, ARGV  as for take. Entries that are not asked for, or at cost 0, stay as they are.
-- Reply       1.
--
-- Loops end as in take: 128 asks, the limits of one subject, 1,000 entries of a log.
local call, unpack, pack, sub = redis.call, struct.unpack, struct.pack, string.sub
for i = 1, #KEYS do
  local record, asks, written, last, moved = call('GET', KEYS[i]) or '', ARGV[i], {}, 0, false
  local from, size, now_us = 1, #record, unpack('<d', asks)
  while from <= size do
    local found, resets, first, number = unpack('<I5I5dd', record, from)
    local machine = found % 256
    local ends = from + (machine == 2 and 26 + 10 * number or machine == 3 and 34 or 26)
    if machine < 1 or machine > 5 or not (ends >= from + 26 and ends <= size + 1) then
      return redis.error_reply('MALFORMED the record is not one of this store')
    end
    local entry = sub(record, from, ends - 1)
    for at = 9, #asks, 37 do
      local tag, p, q, r, s = unpack('<I5dddd', asks, at)
      local ticks = tag % 256 - tag % 16
      local now, per_s = now_us, 1000000
      if ticks > 0 then
        tag, per_s = tag - ticks, ticks == 16 and 1000 or 1
        now = now / (1000000 / per_s)
        now = now - now % 1
      end
      if tag == found and (machine == 2 and r or s) > 0 then
        local newest, to = first, now
        if machine == 2 then
          newest = number > 0 and unpack('<d', record, ends - 10) or now
        elseif machine ~= 4 then
          to = p
        end
        if newest - now > 5 * per_s then
          moved = true
          if machine == 1 then
            resets = to + q
          elseif machine == 2 then
            resets = now + p
          elseif machine == 5 then
            resets = q
          elseif machine == 3 then
            resets = to + q + q
          else
            resets = p > 0 and now + number / p or now
          end
          resets = resets / per_s
          resets = resets - resets % 1 + 1
          if machine == 2 then
            -- All entries move by what the newest moves; those that meet at the epoch become one.
            local back, items, kept, last_time, last_cost = newest - now, {}, 0, -1, 0
            for item = 1, number do
              local time, cost = unpack('<dI2', record, from + 16 + 10 * item)
              time = time > back and time - back or 0
              if time == last_time then
                last_cost = last_cost + cost
              else
                kept, last_time, last_cost = kept + 1, time, cost
              end
              items[kept] = pack('<dI2', last_time, last_cost)
            end
            entry = pack('<I5I5dd', tag, resets, first, kept) .. table.concat(items)
          else
            entry = pack('<I5I5dd', tag, resets, to, number) .. sub(entry, 27)
          end
        end
      end
    end
    written[#written + 1] = entry
    if resets > last then last = resets end
    from = ends
  end
  if moved then
    local life = last - (now_us - now_us % 1000000) / 1000000
    life = life > 0 and life or 0
    call('SET', KEYS[i], table.concat(written), 'EX', string.format('%d', life + 8))
  end
end
return 1
