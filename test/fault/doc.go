// Package fault kills and starves the parts of the appliance and looks at what is left.
package fault
