// One module behind both doors.
import nest from './nest.js'

export const { RateLimit, RateLimitGuard, RateLimitedException } = nest
