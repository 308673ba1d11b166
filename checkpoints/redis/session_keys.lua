-- Names the keys of a session, and extends their life unless that has just been done.
-- Otherwise, a run would take time in proportion to the square of the session's length.
local checkpoints, blobs, runs, index, lease, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[2]
local ttl_ms = tonumber(ARGV[1])
local function renew()
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local deadline = math.max(redis.call('PEXPIRETIME', checkpoints), redis.call('PEXPIRETIME', runs))
    if deadline >= now + ttl_ms then return deadline end
    deadline = now + math.ceil(ttl_ms * 1.01)
    for _, key in ipairs({checkpoints, blobs, runs}) do redis.call('PEXPIREAT', key, deadline) end
    for _, run in ipairs(redis.call('ZRANGE', runs, 0, -1)) do redis.call('PEXPIREAT', record .. run, deadline) end
    redis.call('PEXPIREAT', index, deadline, 'GT')
    return deadline
end
