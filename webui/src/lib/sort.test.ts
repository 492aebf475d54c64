import { expect, it } from 'vitest';
import { sorted, type Column } from './sort';

type Row = { name: string; size: number | null };
const columns: Column<Row>[] = [{ id: 'name', text: 'Name', value: (r) => r.name }, { id: 'size', text: 'Size', value: (r) => r.size }, { id: 'more', text: '' }];
const rows: Row[] = [{ name: 'v10', size: 5 }, { name: 'v9', size: null }, { name: 'Änderung', size: 7 }];
const names = (by: string) => sorted(rows, columns, by, 'de').map((r) => r.name);

it('sorts names as the language does, with numbers as numbers', () => expect(names('name')).toEqual(['Änderung', 'v9', 'v10']));
it('puts rows without a value last in both directions', () => {
  expect(names('size')).toEqual(['v10', 'Änderung', 'v9']);
  expect(names('-size')).toEqual(['Änderung', 'v10', 'v9']);
});
it.each(['', 'more', 'gone'])('leaves the order where %j is no column to sort by', (by) => expect(names(by)).toEqual(['v10', 'v9', 'Änderung']));
