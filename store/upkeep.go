package store

// Warning is a condition of a store that is not wrong yet, and gets worse by itself.
type Warning struct {
	// Name identifies the condition. It is the same in every call for as long as that lasts.
	Name string
	// Err describes the present state, with figures, and the cure.
	Err error
}
