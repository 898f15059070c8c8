#!lua
-- Buckets of one try. KEYS: the buckets. ARGV: take or give, now (microseconds); then for each bucket its places and how often one
-- comes free (microseconds). A bucket is kept as the time until which it is paid (the generic cell rate algorithm).
-- Answers {1}, or {0, how long to wait in microseconds}.
local takes, now = ARGV[1] == 'take', tonumber(ARGV[2])
local paid = {}

for i, name in ipairs(KEYS) do
  local places, each = tonumber(ARGV[i * 2 + 1]), tonumber(ARGV[i * 2 + 2])
  local until_when = tonumber(redis.call('GET', name) or '')
  if takes then
    paid[i] = math.max(until_when or now, now) + each
    local wait = paid[i] - (now + each * places)
    if wait > 0 then
      return {0, wait}
    end
  elseif until_when then
    paid[i] = until_when - each
  end
end

for i, name in ipairs(KEYS) do
  if takes then
    -- Kept for a minute longer, for clocks that differ.
    redis.call('SET', name, string.format('%.0f', paid[i]), 'PX', string.format('%.0f', math.ceil((paid[i] - now) / 1000) + 60000))
  elseif paid[i] then
    redis.call('SET', name, string.format('%.0f', paid[i]), 'KEEPTTL')
  end
end
return {1}
