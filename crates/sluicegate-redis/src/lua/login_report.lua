-- report. ARGV[2]: '<c8BBI2': the attempt's id; what became of it (0 success, 1 failure, 2 aborted); whether the secret has
-- a mark, and the mark.
-- Reply: 0, the lane, and 1 if the charge came back; 1: it was reported before; 2: it took too long, or is not known.
local id, outcome, marked, tag = unpack('<c8BBI2', ARGV[2])
local one
for _, other in ipairs(open) do
  if other[1] == id and not one then one = other end
end
if one and one[8] == 1 then return pack('<BBd', 1, 0, 0) end
if not one or one[2] + 120000 <= now then return pack('<BBd', 2, 0, 0) end
one[8], time = 1, now
local charged_at, lane, device, client, code, returned = one[2], one[3], one[4], one[5], one[6], false
if outcome == 0 then
  returned = keeps == 0
elseif outcome == 1 then
  for _, known in ipairs(tags) do
    if marked == 1 and known == tag then returned = true end
  end
  if marked == 1 and not returned then
    if #tags >= 3 then table.remove(tags, 1) end
    tags[#tags + 1] = tag
  end
  if lane == 3 and not returned then consecutive = consecutive < 4294967295 and consecutive + 1 or consecutive end
elseif (aborted > now and aborted - now or 0) <= (ab_burst - 1) * ab_every then
  returned, aborted = true, (aborted > now and aborted or now) + ab_every
  for _, known in ipairs(codes) do
    if known[1] == code and known[2] > 0 then known[2] = known[2] - 1 end
  end
end
local own
for _, other in ipairs(clients) do
  if other[4] == client then own = other end
end
if returned and lane == 3 then
  -- `own` is last, and may be none.
  for _, reading in ipairs({ unknown, own }) do
    if counter then
      local here = reading[2] > now and reading[2] - e1 <= charged_at
      local locked_by_it = reading[3] == charged_at + b2
      if here and reading[1] > 0 then reading[1] = reading[1] - 1 end
      if locked_by_it or here and reading[1] < b1 then reading[3] = 0 end
    else
      for i = 1, 3 do
        local left = every[i] - (now - charged_at)
        if left > 0 then reading[i] = reading[i] > left and reading[i] - left or 0 end
      end
    end
  end
elseif returned then
  local lasts = lane == 1 and dev_every or fam_every
  local left = lasts - (now - charged_at)
  for _, known in ipairs(lane == 1 and devices or familiar) do
    if lasts > 0 and left > 0 and known[1] == (lane == 1 and device or client) then
      known[2] = known[2] > left and known[2] - left or 0
    end
  end
end
if outcome == 0 and returned then
  consecutive = 0
  for i = #codes, 1, -1 do
    if codes[i][1] == code then table.remove(codes, i) end
  end
  if counter then
    unknown, clients = { 0, 0, 0 }, {}
  elseif own then
    local units = 0
    for i = 1, 3 do
      if every[i] > 0 and own[i] > now then
        local owed = own[i] - now
        local most = (owed - owed % every[i]) / every[i] + (owed % every[i] > 0 and 1 or 0)
        if most > units then units = most end
      end
    end
    local after = (forgiven > now and forgiven or now) + units * for_every
    if units > 0 and after - now <= for_burst * for_every then
      forgiven = after
      for i = 1, 3 do
        local owed = own[i] > now and own[i] - now or 0
        unknown[i] = unknown[i] > owed and unknown[i] - owed or 0
      end
      for i = #clients, 1, -1 do
        if clients[i] == own then table.remove(clients, i) end
      end
    end
  end
  if fam_every > 0 then
    local drained_at = 0
    for i = #familiar, 1, -1 do
      if familiar[i][1] == client then drained_at = table.remove(familiar, i)[2] end
    end
    if #familiar >= 8 then table.remove(familiar, 1) end
    familiar[#familiar + 1] = { client, drained_at, now + fam_ms }
  end
end
local reply = pack('<BBd', 0, lane, returned and 1 or 0)
