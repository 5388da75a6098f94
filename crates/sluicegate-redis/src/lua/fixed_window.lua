      -- Twin of fixed_window.rs. Asked: opening, window, room (amount - cost; -1 if the cost never fits), cost.
      -- Kept: start, used.
      local opening, window, room, cost = p, q, r, s
      local start, used = opening, 0
      if found == tag then
        start, used = first, second
        if start ~= opening then
          if start - now > 5 * per_s and cost > 0 then return '\255' end
          if start + window <= now or used == 0 and start < now then
            start, used = opening, 0
          end
        end
      end
      if cost > 0 then
        if used > room then
          denied = true
        elseif not denied then
          if used == 0 then
            resets = (start + window) / per_s
            resets = resets - resets % 1 + 1
          end
          counted, first, second = true, start, used + cost
        end
      end
