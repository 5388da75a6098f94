      -- Twin of sliding_counter.rs. Asked: opening, window, amount, cost. Kept: start, current; then previous, '<d'.
      local opening, window, amount, cost = p, q, r, s
      local start, current, previous = opening, 0, 0
      if found == tag then
        start, current, previous, from = first, second, unpack('<d', record, from + 26), from + 34
        if start - now > 5 * per_s and cost > 0 then return '\255' end
        if opening > start then
          previous = opening - start == window and current or 0
          start, current = opening, 0
        end
      end
      if cost > 0 then
        local left = now > start and window - (now - start) or window
        if left < 0 then left = 0 end
        if cost > amount or previous * left + (current + cost) * window > amount * window then
          denied = true
        elseif not denied then
          resets = (start + window + window) / per_s
          resets = resets - resets % 1 + 1
          entry = pack('<I5I5ddd', tag, resets, start, current + cost, previous)
        end
      end
