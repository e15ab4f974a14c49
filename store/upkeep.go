package store

import "context"

// Upkeeper is an optional interface of a [Store] that needs care while it is used; a store
// that needs none, even a [Full] one, does without it. A store that wraps another hides the
// method, unless it has the method, too.
type Upkeeper interface {
	// Upkeep looks at the store itself, not at its batches, and repairs it where that makes
	// nobody wait. It returns the conditions that the store's operator must know about at
	// present; nothing while all is well. Every Runner calls it once a second while it runs,
	// so it may be called concurrently, by several processes on one database.
	Upkeep(ctx context.Context) ([]Warning, error)
}

// Warning is a condition of a store that is not wrong yet, and gets worse by itself.
type Warning struct {
	// Name identifies the condition. It is the same in every call for as long as that lasts.
	Name string
	// Err describes the present state, with figures, and the cure.
	Err error
}
