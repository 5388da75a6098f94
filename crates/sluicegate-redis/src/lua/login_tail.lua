local written, last = { '' }, 0
for _, known in ipairs(devices) do
  written[#written + 1] = pack('<c8d', known[1], known[2])
  if known[2] > last then last = known[2] end
end
for _, known in ipairs(familiar) do
  written[#written + 1] = pack('<c8dd', known[1], known[2], known[3])
  if known[2] > last then last = known[2] end
  if known[3] > last then last = known[3] end
end
for _, known in ipairs(clients) do
  written[#written + 1] = pack('<c8ddd', known[4], known[1], known[2], known[3])
end
for _, known in ipairs(codes) do
  written[#written + 1] = pack('<c8I4d', known[1], known[2], known[3])
  if known[3] > last then last = known[3] end
end
for _, one in ipairs(open) do
  written[#written + 1] = pack('<c8dBc8c8c8c8B', one[1], one[2], one[3], one[4], one[5], one[6], one[7], one[8])
  if one[2] + 300000 > last then last = one[2] + 300000 end
end
for i = counter and 2 or 1, 3 do
  if unknown[i] > last then last = unknown[i] end
end
for _, instant in ipairs({ not_before, forgiven, aborted, consecutive > 0 and time + fam_ms or 0 }) do
  if instant > last then last = instant end
end
written[1] = pack('<BdddddddI4BI2I2I2BBBBB', 1, time, unknown[1], unknown[2], unknown[3], not_before, forgiven, aborted,
  consecutive, #tags, tags[1] or 0, tags[2] or 0, tags[3] or 0, #devices, #familiar, #clients, #codes, #open)
local life = string.format('%.0f', (last > now and last - now or 0) + 10000)
call('SET', KEYS[1], table.concat(written), 'PX', life)
return reply
