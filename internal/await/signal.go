package await

import "sync"

// Signal wakes any number of waiters at once. The zero value is ready. Its methods may be called
// concurrently.
type Signal struct {
	mu   sync.Mutex
	next chan struct{} // nil if nothing waits
}

// Next returns a channel that the next Notify closes.
func (s *Signal) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Notify wakes all waiters.
func (s *Signal) Notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
