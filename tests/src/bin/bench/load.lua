-- Sends the requests of a file, one after the other, each once or again and again, and says what came of them.
-- The file: the path, the content type, the authorization or "-", then one body a line.
local threads, requests, at, again = {}, {}, 0, false
exhausted = 0

function setup(thread)
  table.insert(threads, thread)
end

function init(args)
  local file = assert(io.open(args[1], "r"))
  again = args[2] == "again"
  local path, kind, authorization = file:read("*l"), file:read("*l"), file:read("*l")
  local head = "POST " .. path .. " HTTP/1.1\r\nHost: " .. wrk.host .. "\r\nContent-Type: " .. kind .. "\r\n"
  if authorization ~= "-" then
    head = head .. "Authorization: " .. authorization .. "\r\n"
  end
  for body in file:lines() do
    requests[#requests + 1] = head .. "Content-Length: " .. #body .. "\r\n\r\n" .. body
  end
  file:close()
end

function request()
  at = at + 1
  if at > #requests then
    if again then
      at = 1
    else
      exhausted = 1
      return "GET /none HTTP/1.1\r\nHost: " .. wrk.host .. "\r\n\r\n"
    end
  end
  return requests[at]
end

function done(summary, latency)
  local errors, ended = summary.errors, 0
  for _, thread in ipairs(threads) do
    ended = ended + thread:get("exhausted")
  end
  io.write(("RESULT %d %d %d %d %d %d %d %d\n"):format(
    summary.requests, summary.duration, errors.connect + errors.read + errors.write + errors.timeout, errors.status, ended,
    latency:percentile(50), latency:percentile(95), latency:percentile(99)))
end
