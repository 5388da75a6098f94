      -- Twin of sliding_log.rs. Asked: window, room (amount - cost; -1 if the cost never fits), cost.
      -- Kept: sum, number of entries; then the entries, oldest first, each '<dI2': time, cost.
      local window, room, cost = p, q, r
      local sum, number, entries, latest = 0, 0, '', now
      if found == tag then
        sum, number = first, second
        entries = string.sub(record, from + 26, from + 25 + 10 * number)
        from = from + 26 + 10 * number
        if number > 0 then
          local newest = unpack('<d', entries, 10 * number - 9)
          if newest > now then
            if newest - now > 5 * per_s and cost > 0 then return '\255' end
            latest = newest
          end
        end
      end
      local expired = 0
      while expired < number do
        local time, paid = unpack('<dI2', entries, 10 * expired + 1)
        if time + window > latest then break end
        sum, expired = sum - paid, expired + 1
      end
      if cost > 0 then
        if sum > room then
          denied = true
        elseif not denied then
          local ends, paid = #entries, 0
          if expired < number then
            local newest, newest_paid = unpack('<dI2', entries, ends - 9)
            -- Equal times are one entry; an ask from a clock behind counts with the newest. A newest entry that was
            -- given back whole gives its place to the next.
            if newest >= now or newest_paid == 0 then
              ends, paid = ends - 10, newest_paid
              number = number - 1
            end
          end
          resets = (latest + window) / per_s
          resets = resets - resets % 1 + 1
          entry = pack('<I5I5dd', tag, resets, sum + cost, number - expired + 1)
            .. string.sub(entries, 10 * expired + 1, ends) .. pack('<dI2', latest, paid + cost)
        end
      end
