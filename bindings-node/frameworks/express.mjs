// One module behind both doors.
import express from './express.js'

export const { rateLimit } = express
