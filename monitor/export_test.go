package monitor

// Followed returns how many services the streams know, for the tests.
func (m *Monitor) Followed() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, st := range m.streams {
		n += len(st.services)
	}
	return n
}
