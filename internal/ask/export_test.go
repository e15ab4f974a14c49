package ask

// Followed returns how many services the streams know, for the tests.
func (m *Monitor) Followed() (n int) {
	m.streams.mu.Lock()
	defer m.streams.mu.Unlock()
	for _, st := range m.streams.byGroup {
		n += len(st.services)
	}
	return n
}
