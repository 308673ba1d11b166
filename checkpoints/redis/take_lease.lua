-- Takes a lease, and clears requests to cancel that are older than it.
-- Tokens are times in microseconds. A counter alone would issue a token twice if the server lost its latest data.
local token = redis.call('HGET', KEYS[1], 'token')
if token and token ~= ARGV[2] then
    return {0, token, redis.call('HGET', KEYS[1], 'owner') or ''}
end
local time = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[2]) or 0)
token = string.format('%.0f', math.max(time[1] * 1000000 + time[2], last + 1))
redis.call('SET', KEYS[2], token, 'EX', ARGV[5])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'session_id', ARGV[4], 'token', token, 'owner', ARGV[1], 'started_at', time[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('DEL', unpack(KEYS, 3))
return {1, token, ''}
