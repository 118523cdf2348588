// One module behind both doors.
import nest from './nest.js'

export const { RateLimit, RateLimitFilter, RateLimitGuard, RateLimitedException } = nest
