// Package deploy holds the parts of the deployment in compose.yaml, at the root of the
// repository: the image, the start scripts, and the script that makes secrets. Its only
// Go code is the tests that check them.
package deploy
