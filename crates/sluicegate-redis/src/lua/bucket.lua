      -- Twin of bucket.rs. Asked: amount (drained per tick), capacity, room (-1 if the cost never fits), added_by.
      -- Kept: time, level.
      local amount, capacity, room, added_by = p, q, r, s
      local time, level = now, 0
      if found == tag then
        time, level = first, second
        if level > capacity then level = capacity end
        if time < now then
          -- Inexact only when it is far above any level, and then the bucket is empty all the same.
          level = level - amount * (now - time)
          if level < 0 then level = 0 end
          time = now
        elseif time - now > 5 * per_s and added_by > 0 then
          return '\255'
        end
      end
      if added_by > 0 then
        if level > room then
          denied = true
        elseif not denied then
          level = level + added_by
          resets = (time + level / amount) / per_s
          resets = resets - resets % 1 + 1
          counted, first, second = true, time, level
        end
      end
