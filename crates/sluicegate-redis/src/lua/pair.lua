      -- What machines share that keep two numbers and nothing more.
      if found == tag then from = from + 26 end
      if counted then entry = pack('<I5I5dd', tag, resets, first, second) end
