//go:build npm

package parts

func serveCurl() {}
