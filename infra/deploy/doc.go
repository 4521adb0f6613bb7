// Package deploy holds what compose.yaml, at the root of the repository, is
// made of: the image, the start scripts and the script that makes secrets. It
// has no Go code but the tests that check them.
package deploy
