//go:build race

package tier

// Raced reports whether this binary is built with -race.
const Raced = true
