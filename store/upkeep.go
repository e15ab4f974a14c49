package store

import "context"

// Upkeeper is what a store implements beside [Store] where it has to be looked after while
// it is used. A store that wraps another hides it, unless it has the method, too.
type Upkeeper interface {
	// Upkeep looks at the store itself, not at what is stored, and puts in order what it can
	// without keeping others waiting. It returns what the store's operator has to know of,
	// as it is by then; nothing while all is well. Every Runner calls it once a second while
	// it runs, so it may be called concurrently, by several processes on one database.
	Upkeep(ctx context.Context) ([]Warning, error)
}

// Warning is something about a store that is not wrong yet, and gets worse by itself.
type Warning struct {
	// Name says what it is about. It is the same in every call for as long as that stands.
	Name string
	// Err says how it is now, with figures, and what ends it.
	Err error
}
