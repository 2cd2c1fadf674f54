-- Rules of a store for one remote endpoint. One call is one request, and Redis runs no
-- other command meanwhile.
--
-- A record is its encoding (PathState::to_bytes), followed by the first 16 digits of the
-- SHA-1 of key and encoding, in future versions too. A claim is a key whose value is the
-- token and, behind a colon, its duration in ms, after which the key expires. A hold-off
-- is a key that expires, too, and so is the time, in ms since 1970, until which own states of
-- connections were observed that are void.
local record_key, claim_key, hold_off_key, retreats_key, index_key, void_key, void_all_key = unpack(KEYS)
local request, endpoint, wall_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])

local VERSION, RECORD_BYTES, SUM_BYTES, TOKEN_BYTES = 1, 34, 16, 16
local LIMITED, VALIDATED, LIFETIMES_MAX, MORE_DIVISOR = 1, 2, 4, 8

local function redis_ms()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- 64-bit numbers are compared in halves: a number of Lua holds 53 bits.
local function halves(record, at)
    local high, low = struct.unpack('>I4I4', record, at)
    return high, low
end

local function packed(number)
    return struct.pack('>I4I4', math.floor(number / 4294967296), number % 4294967296)
end

local function number(record, at)
    local high, low = halves(record, at)
    return high * 4294967296 + low
end

local function cwnd_halves(record) return halves(record, 3) end
local function rtt_us(record) return number(record, 11) end
local function observed_ms(record) return number(record, 19) end
local function expires_ms(record) return number(record, 27) end

local function has(record, flag)
    return bit.band(record:byte(2), flag) ~= 0
end

local function sum(record)
    return redis.sha1hex(endpoint .. '\0' .. record):sub(1, SUM_BYTES)
end

local function is_expired(record)
    local life_ms = expires_ms(record) - observed_ms(record)
    return wall_ms >= expires_ms(record) or wall_ms + life_ms < observed_ms(record)
end

-- Returns the record and the status. Deletes it if nobody can use it.
local function load()
    local value = redis.call('GET', record_key)
    if not value then return nil, 'none' end

    local record = value:sub(1, -SUM_BYTES - 1)
    local sound = value:sub(-SUM_BYTES) == sum(record)
    if sound and #record > 0 and record:byte(1) ~= VERSION then return nil, 'newer' end

    if not sound or #record ~= RECORD_BYTES then
        redis.call('DEL', record_key)
        return nil, 'damaged'
    end
    if is_expired(record) then
        redis.call('DEL', record_key)
        return nil, 'expired'
    end
    return record, 'sound'
end

-- Redis deletes a key one millisecond after its time.
local function px(ms) return string.format('%.0f', math.max(ms - 1, 1)) end

-- If Redis' clock was set back, limits what is left of a timer to its duration.
local function bound(key, ms_max)
    if redis.call('PTTL', key) > ms_max then redis.call('PEXPIRE', key, px(ms_max)) end
end

local function index(life_ms)
    redis.call('ZADD', index_key, redis_ms() + life_ms, endpoint)
end

local function is_held_off(hold_off_ms_max)
    if redis.call('EXISTS', hold_off_key) == 0 then return false end
    bound(hold_off_key, hold_off_ms_max)
    return true
end

-- Returns the token of the claim, and its duration in ms.
local function holder()
    local value = redis.call('GET', claim_key)
    if not value then return nil end
    return value:sub(1, TOKEN_BYTES), tonumber(value:sub(TOKEN_BYTES + 2))
end

-- PathState::renewed. An expiry that a number of Lua cannot hold stays as it is.
local function renewed(held, observed)
    local latest = observed_ms(held) + LIFETIMES_MAX * (expires_ms(observed) - observed_ms(observed))
    local expires = math.max(math.min(expires_ms(observed), latest), expires_ms(held))
    local flags = bit.bor(held:byte(2), VALIDATED)
    local tail = expires > expires_ms(held) and packed(expires) or held:sub(27)
    return held:sub(1, 1) .. string.char(flags) .. held:sub(3, 26) .. tail
end

-- PathState::least_news, in halves.
local function least_news(held)
    local high, low = cwnd_halves(held)
    if has(held, LIMITED) then return high, low end

    low = low + math.floor((high % MORE_DIVISOR * 4294967296 + low) / MORE_DIVISOR)
    high = high + math.floor(high / MORE_DIVISOR) + math.floor(low / 4294967296)
    if high > 4294967295 then return 4294967295, 4294967295 end
    return high, low % 4294967296
end

-- PathState::merged, for records that have not expired.
local function merged(held, observed)
    if not held or not has(observed, LIMITED) then return observed end

    local observed_high, observed_low = cwnd_halves(observed)
    local high, low = least_news(held)
    if observed_high > high or (observed_high == high and observed_low >= low) then
        return observed
    end
    return has(observed, VALIDATED) and renewed(held, observed) or held
end

local requests = {}

function requests.get()
    local record, status = load()
    return { status, record or '' }
end

local function void_until(key)
    return tonumber(redis.call('GET', key) or '-1')
end

local function make_void(key, kept_ms)
    local until_ms = math.max(wall_ms, void_until(key))
    redis.call('SET', key, string.format('%.0f', until_ms), 'PX', px(kept_ms))
end

-- Claims a record for the connection with ARGV[4].
local function claim(record, status)
    local token, hold_off_ms_max, current_us = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
    local factor_max, lease_ms_min = tonumber(ARGV[7]), tonumber(ARGV[8])
    local lease_rtts, linger_ms = tonumber(ARGV[9]), tonumber(ARGV[10])
    if is_held_off(hold_off_ms_max) then return { 'held_off', '' } end

    local us = math.max(rtt_us(record), math.min(current_us, factor_max * rtt_us(record)))
    local ms = math.max(lease_ms_min, math.ceil(us * lease_rtts / 1000)) + linger_ms
    local value = string.format('%s:%.0f', token, ms)
    if redis.call('SET', claim_key, value, 'NX', 'PX', px(ms)) then return { status, record } end

    local _, given_ms = holder()
    bound(claim_key, given_ms or ms)
    return { 'claimed', '' }
end

-- Arguments: token, longest hold-off in ms, current RTT in µs, its maximum in saved RTTs,
-- shortest lease in ms, lease in RTTs, time from the end of the lease to that of the claim
-- in ms
function requests.claim()
    local record, status = load()
    if not record then return { status, '' } end
    return claim(record, status)
end

-- Arguments: those of claim, and the record that the connection brings
function requests.claim_own()
    local own = ARGV[11]
    local _, status = load()
    if status == 'newer' then return { status, '' } end
    local void_ms = math.max(void_until(void_key), void_until(void_all_key))
    if is_expired(own) or observed_ms(own) <= void_ms then return { 'void', '' } end
    return claim(own, status)
end

-- Arguments: record, longest hold-off in ms, capacity. Returns the endpoints beyond it.
function requests.record()
    local observed, hold_off_ms_max, capacity = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
    if is_held_off(hold_off_ms_max) then return { 'held_off', '' } end

    local held, status = load()
    if status == 'newer' then return { status, '' } end

    local record = merged(held, observed)
    local life_ms = math.min(expires_ms(record) - wall_ms, expires_ms(record) - observed_ms(record))
    if life_ms < 1 then
        redis.call('DEL', record_key)
    else
        redis.call('SET', record_key, record .. sum(record), 'PX', px(life_ms))
        index(life_ms)
    end
    if has(observed, VALIDATED) then redis.call('DEL', retreats_key) end

    local excess = redis.call('ZCARD', index_key) - capacity
    if excess <= 0 then return { status, '' } end
    return { status, '', redis.call('ZRANGE', index_key, 0, excess - 1) }
end

-- Argument: token
function requests.release()
    if holder() ~= ARGV[4] then return { 'none', '' } end
    redis.call('DEL', claim_key)
    return { 'sound', '' }
end

-- Arguments: token, when the used record was observed in ms since 1970, how long retreats
-- are remembered after a hold-off in ms, then the hold-offs in ms after the first
-- retreat, the second and so on; the last is that of all further retreats
function requests.forget()
    local used_ms, kept_ms = tonumber(ARGV[5]), tonumber(ARGV[6])
    if holder() == ARGV[4] then redis.call('DEL', claim_key) end
    local record, status = load()
    if status == 'newer' then return { status, '' } end

    if record and observed_ms(record) <= used_ms then redis.call('DEL', record_key) end
    make_void(void_key, kept_ms)
    -- A retreat during a hold-off is part of the last one.
    if is_held_off(tonumber(ARGV[#ARGV])) then return { status, '' } end

    local retreats = redis.call('INCR', retreats_key)
    local hold_off_ms = tonumber(ARGV[math.min(6 + retreats, #ARGV)])
    local remembered_ms = hold_off_ms + kept_ms
    redis.call('PEXPIRE', retreats_key, px(remembered_ms))
    redis.call('SET', hold_off_key, '', 'PX', px(hold_off_ms))
    index(math.max(remembered_ms, redis.call('PTTL', record_key)))
    return { status, '' }
end

-- For administration: deletes claim and hold-off too. Argument: how long it is known, in ms, that
-- own states are void
function requests.delete()
    redis.call('ZREM', index_key, endpoint)
    local records = redis.call('DEL', record_key)
    local others = redis.call('DEL', claim_key, hold_off_key, retreats_key)
    make_void(void_key, tonumber(ARGV[4]))
    return { records + others > 0 and 'sound' or 'none', tostring(records) }
end

-- Argument: that of delete
function requests.void_all()
    make_void(void_all_key, tonumber(ARGV[4]))
    return { 'none', '' }
end

-- Evicts an entry. Its claim stays until its lease ends, so that no second one begins.
function requests.evict()
    redis.call('DEL', record_key, hold_off_key, retreats_key)
    local evicted = redis.call('ZREM', index_key, endpoint)
    return { evicted > 0 and 'sound' or 'none', '' }
end

-- Removes from the index what Redis has deleted.
function requests.sweep()
    local swept = redis.call('ZREMRANGEBYSCORE', index_key, '-inf', redis_ms())
    return { 'none', tostring(swept) }
end

return requests[request]()
