//go:build !debug

package lease

const debug = false
