-- begin. ARGV[2]: '<c8c8c8c8c8BBd': the attempt's id, the client, the device, the code and the proof, eight zeros for none;
-- whether another factor was shown, whether every guess is challenged; when the address has room again, 0 for now.
-- Reply: 0 and the lane (1 device, 2 familiar, 3 unknown); 1 and the challenge's level; 2, 0 and when the delay ends; 3,
-- where there is no room (1 account, 2 address, 3 code) and when there is; 4, 0 and when; 5: another factor.
local id, client, device, code, proof, stepped_up, always, address_full_until = unpack('<c8c8c8c8c8BBd', ARGV[2])
local tried
for _, known in ipairs(codes) do
  if known[1] == code then tried = known end
end
if tried and tried[2] >= most_tries then return pack('<BBd', 3, 3, tried[3]) end
local lane, own_lane = 3
if dev_every > 0 and device ~= nobody then
  local owed, has_place = 0, #devices < 16
  for _, known in ipairs(devices) do
    if known[1] == device then owed, has_place, own_lane = known[2] - now, true, known end
  end
  if has_place and dev_burst > 0 and owed <= (dev_burst - 1) * dev_every then lane = 1 end
end
if lane == 3 and fam_every > 0 then
  for _, known in ipairs(familiar) do
    if known[1] == client and fam_burst > 0 and known[2] - now <= (fam_burst - 1) * fam_every then
      lane, own_lane = 2, known
    end
  end
end
if lane == 3 then
  if address_full_until > 0 then return pack('<BBd', 3, 2, address_full_until) end
  local retry_at = 0
  if counter then
    if unknown[3] > now then retry_at = unknown[3] end
    if every[2] == 0 and b2 == 0 and used >= b1 then
      local till = unknown[2] > now and unknown[2] or now + e1
      if till > retry_at then retry_at = till end
    end
  else
    for i = 1, 3 do
      local room = (burst[i] - 1) * every[i]
      if every[i] > 0 and unknown[i] - now > room and unknown[i] - room > retry_at then
        retry_at = unknown[i] - room
      end
    end
  end
  if retry_at > 0 then
    for _, other in ipairs(open) do
      if other[3] == 3 and other[8] == 0 and other[2] + 120000 > now then return pack('<BBd', 4, 0, retry_at) end
    end
    return pack('<BBd', 3, 1, retry_at)
  end
  if not_before > now then return pack('<BBd', 2, 0, not_before) end
  if step_up >= 0 and consecutive >= step_up and stepped_up == 0 then return pack('<BBd', 5, 0, 0) end
  if always == 1 or used >= free then
    local met = proof ~= nobody
    for _, other in ipairs(open) do
      if other[7] == proof then met = false end
    end
    if not met then
      local level = used > free and used - free or 0
      return pack('<BBd', 1, level < 255 and level or 255, 0)
    end
  end
  local own, kept = { 0, 0, 0, client }, {}
  for _, other in ipairs(clients) do
    if other[4] == client then own = other else kept[#kept + 1] = other end
  end
  if #kept >= 32 then table.remove(kept, 1) end
  kept[#kept + 1], clients = own, kept
  for _, reading in ipairs({ unknown, own }) do
    if counter then
      local live = reading[2] > now
      reading[1] = (live and reading[1] or 0) + 1
      reading[2] = live and reading[2] or now + e1
      if b2 > 0 and reading[1] >= b1 and reading[3] <= now then reading[3] = now + b2 end
    else
      for i = 1, 3 do
        if every[i] > 0 then reading[i] = (reading[i] > now and reading[i] or now) + every[i] end
      end
    end
  end
  local counted = unknown[1]
  if not counter then
    local owed = unknown[1] - now
    counted = (owed - owed % every[1]) / every[1] + (owed % every[1] > 0 and 1 or 0)
  end
  local delayed = counted - undelayed - 1
  if delayed >= 0 then not_before = now + (delayed < 3 and 2000 * 2 ^ delayed or 16000) end
elseif own_lane then
  local lasts = lane == 1 and dev_every or fam_every
  own_lane[2] = (own_lane[2] > now and own_lane[2] or now) + lasts
else
  devices[#devices + 1] = { device, now + dev_every }
end
if tried then
  tried[2] = tried[2] + 1
elseif code ~= nobody then
  if #codes >= 8 then table.remove(codes, 1) end
  codes[#codes + 1] = { code, 1, now + 3600000 }
end
if #open >= 64 then table.remove(open, 1) end
open[#open + 1] = { id, now, lane, device, client, code, proof, 0 }
time = now
local reply = pack('<BBd', 0, lane, 0)
