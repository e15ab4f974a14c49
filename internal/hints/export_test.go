package hints

// Peers returns how many listeners a node remembers.
func (n *Node) Peers() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.peers)
}
