-- Searches for wrk: the bodies of a file in turn. `wrk ... -s load.lua URL -- FILE`; prints one line of JSON at the end.
-- Latencies are of all responses, refusals too: wrk does not tell them apart.

local bodies = {}
local at = 0

function init(arguments)
  for line in io.lines(arguments[1]) do
    bodies[#bodies + 1] = wrk.format("POST", "/v1/search", { ["content-type"] = "application/json" }, line)
  end
end

function request()
  at = at % #bodies + 1
  return bodies[at]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %.6f, "p50": %.3f, "p99": %.3f, "failed": %d, "refused": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.connect + errors.read + errors.write + errors.timeout, errors.status))
end
