-- Checks the precondition, executes commands, and gives their keys the same time to live as the rest of the session.
if ARGV[3] ~= '' then
    local token = redis.call('HGET', lease, 'token') or '$NO_LEASE'
    if token ~= ARGV[3] then
        return redis.error_reply(token == '$NO_LEASE' and '$LEASE_MISSING' or '$LEASE_TAKEN')
    end
end
if ARGV[4] ~= '' and redis.call('HEXISTS', checkpoints, ARGV[4]) == 0 then
    return redis.error_reply('$CHECKPOINT_MISSING')
end
for i = 6, #ARGV do
    if redis.call('HEXISTS', blobs, ARGV[i]) == 0 then return redis.error_reply('$BLOB_MISSING') end
end
local function list(session, started_ms)
    redis.call('ZADD', index, 'GT', started_ms, session)
    local start = string.sub(runs, 1, -#session - 1)
    for _, other in ipairs(redis.call('ZRANDMEMBER', index, 3)) do
        if redis.call('EXISTS', start .. other) == 0 then redis.call('ZREM', index, other) end
    end
    local life_ms = math.ceil(ttl_ms * 1.01)
    if redis.call('PTTL', index) < life_ms then redis.call('PEXPIRE', index, life_ms) end
end
local function newest(namespace)
    local start, id = 'c\0' .. namespace .. '\0', ''
    for _, field in ipairs(redis.call('HKEYS', checkpoints)) do
        if string.sub(field, 1, #start) == start then
            local other = string.sub(field, #start + 1)
            if other > id then id = other end
        end
    end
    redis.call('HSET', checkpoints, 'n\0' .. namespace, id)
end
local written = {}
for _, command in ipairs(cmsgpack.unpack(ARGV[5])) do
    local name, key = command[1], command[2]
    if name == '$LIST' then
        list(unpack(command, 2))
    elseif name == '$NEWEST' then
        newest(key)
    elseif name == '$APPEND' then
        redis.call('HSET', key, command[3], (redis.call('HGET', key, command[3]) or '') .. command[4])
    else
        redis.call(unpack(command))
    end
    if name == 'HSET' or name == 'ZADD' or name == '$APPEND' then written[key] = true end
end
local deadline = renew()
for key in pairs(written) do redis.call('PEXPIREAT', key, deadline) end
return 1
