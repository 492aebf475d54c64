/**
 * The order of questions to the box. Their answers may arrive in another one, and what was asked for early may arrive after
 * something newer is known: such an answer is dropped.
 */
export class Order {
  private asked = 0;
  private known = 0;

  /** Begins a question. What it returns is asked once, when the answer is there: whether that answer still counts. */
  ask(): () => boolean {
    const number = ++this.asked;
    return () => {
      if (number <= this.known) return false;
      this.known = number;
      return true;
    };
  }

  /** Something is known, or wanted, that makes all that was asked for until now old. */
  overtake(): void {
    this.known = this.asked;
  }

  /** Hands on an answer, or what came instead of one, unless it is old by then. */
  async take<T>(question: Promise<T>, answer: (value: T) => void, trouble: (thrown: unknown) => void): Promise<void> {
    const counts = this.ask();
    try {
      const value = await question;
      if (counts()) answer(value);
    } catch (thrown) {
      if (counts()) trouble(thrown);
    }
  }
}
