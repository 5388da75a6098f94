      -- Twin of quota.rs. Asked: opening, ends (of the period of now), room (amount - cost; -1 if the cost never fits), cost.
      -- Kept: start, used.
      local opening, ends, room, cost = p, q, r, s
      local start, used = opening, 0
      if found == tag then
        start, used = first, second
        if start < opening then
          start, used = opening, 0
        elseif start - now > 5 * per_s and cost > 0 then
          return '\255'
        end
      end
      if cost > 0 then
        if used > room then
          denied = true
        elseif not denied then
          -- A period that begins after now was stored with its end.
          if start == opening then
            resets = ends / per_s
            resets = resets - resets % 1 + 1
          end
          counted, first, second = true, start, used + cost
        end
      end
