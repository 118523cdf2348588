// One module behind both doors.
import fetch from './fetch.js'

export const { rateLimitedFetch } = fetch
