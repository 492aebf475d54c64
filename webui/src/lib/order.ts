/**
 * Orders concurrent requests to the box. Responses may arrive out of order, and an event may carry newer state than a
 * response that arrives later: a superseded response is dropped.
 */
export class Order {
  private asked = 0;
  private known = 0;

  /** Begins a request. Call the returned function once, with the response: it tells whether the response is current. */
  ask(): () => boolean {
    const number = ++this.asked;
    return () => {
      if (number <= this.known) return false;
      this.known = number;
      return true;
    };
  }

  /** Marks all requests that have begun as superseded. */
  invalidate(): void {
    this.known = this.asked;
  }

  /** Passes the response, or the error, to a callback unless the request was superseded. */
  async apply<T>(question: Promise<T>, answer: (value: T) => void, trouble: (thrown: unknown) => void): Promise<void> {
    const counts = this.ask();
    try {
      const value = await question;
      if (counts()) answer(value);
    } catch (thrown) {
      if (counts()) trouble(thrown);
    }
  }
}
