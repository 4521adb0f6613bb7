package grant

// Readers returns the number of readers of cases that work or wait.
func (s *Service) Readers() (n int) {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	for _, l := range s.limiter.byCase {
		n += l.readers
	}
	return n
}
