-- Renews a session. Returns the id of a checkpoint, the checkpoint and its pending writes, or nothing.
renew()
local namespace, id = ARGV[3], ARGV[4]
if redis.call('EXISTS', checkpoints) == 0 then
    if redis.call('EXISTS', blobs) == 1 then return redis.error_reply('$PART_MISSING') end
    return {}
end
if id == '' then id = redis.call('HGET', checkpoints, 'n\0' .. namespace) end
if not id then return {} end
local checkpoint = redis.call('HGET', checkpoints, 'c\0' .. namespace .. '\0' .. id)
if not checkpoint then return {} end
return {id, checkpoint, redis.call('HGET', checkpoints, 'w\0' .. namespace .. '\0' .. id) or ''}
